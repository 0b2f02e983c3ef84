"""Convert the files of a monitor: `tensorboard` writes event files, `database` an SQLite database."""
