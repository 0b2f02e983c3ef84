/* The keys of a record's statistics, generated from schema.py by `python docs/statistics.py`. */

enum { NUMBERS = 4 }; /* that every record of a tensor with statistics has */
#define KEY_MAX "\"Max\":"
#define KEY_MIN ",\"Min\":"
#define KEY_MEAN ",\"Mean\":"
#define KEY_NORM ",\"Norm\":"
#define KEY_TRUE_COUNT ",\"true_count\":"
#define KEY_NAN ",\"nan_count\":"
#define KEY_POSITIVE_INF ",\"positive_inf_count\":"
#define KEY_NEGATIVE_INF ",\"negative_inf_count\":"
#define KEY_DIGEST ",\"md5\":"
#define NUMBER_KEYS {"Max", "Min", "Mean", "Norm"}
#define DIGEST_NAME "md5"
#define OPTIONAL_KEYS {"zeros", "underflow:fp16", "underflow:bf16", "underflow:e4m3", "underflow:e5m2", "underflow:hif8", "saturated:fp16", "saturated:bf16", "saturated:e4m3", "saturated:e5m2", "saturated:hif8", "stride", "storage_offset"}
#define COLUMN_MAX 2
#define COLUMN_MIN 1
#define COLUMN_MEAN 5
#define COLUMN_NORM 0
#define COLUMN_NANS 4
#define COLUMN_ZEROS 3
#define COLUMNS 6 /* of the monitor's lean pass */
