"""Write a comparison as a sheet, csv, JSON and text on the console. Measures and judges nothing.

Read `columns` (the table), `cells` and `rows` (its content), then the writers: `sheet` and `workbook`, `csv_file`,
`json_file`, `console`. `highlight` selects the rows to color, `table_file` the format, and `page` the rows of a report.
"""
