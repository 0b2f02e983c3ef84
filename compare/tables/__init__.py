"""Rows become a sheet, a csv file, JSON or the lines on the console."""
