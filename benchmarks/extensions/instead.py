"""Run the command `msprobe` with a library in the place of code of ours: `python instead.py LIBRARY|- VERB ...`."""

import contextlib
import sys


def orjson():
    """dump.json is parsed at once by orjson; its entries become rows as without the scanner."""
    import orjson

    _parsed_by(orjson.loads)


def msgspec():
    """The same by msgspec."""
    import msgspec

    _parsed_by(msgspec.json.Decoder().decode)


def _parsed_by(parse):
    from msprobe.store import flatten, reader

    def contents(file, structure):
        text = parse(file.read_bytes())
        builder = flatten.ColumnsBuilder()
        for name, entry in text.pop("data").items():
            builder.add(name, entry)
        reader._check(file, text, structure)
        return text, builder

    reader._contents = contents


def csv():
    """Lines by Python's module csv."""
    import csv
    import io

    from msprobe.compare.tables import csv_file

    def write_lines(file, columns):
        text = io.StringIO()
        csv.writer(text).writerows(zip(*columns, strict=True))
        file.write(text.getvalue().encode("utf-8", "replace"))

    csv_file._write_lines = write_lines


def pyarrow():
    """Lines by pyarrow, which quotes all texts or none and ends lines by a line feed alone: not the same bytes."""
    import pyarrow
    from pyarrow.csv import WriteOptions, write_csv

    from msprobe.compare.tables import csv_file

    options = WriteOptions(include_header=False, quoting_style="needed")

    def write_lines(file, columns):
        arrays = [pyarrow.array(csv_file._texts(column), pyarrow.string()) for column in columns]
        write_csv(pyarrow.table(arrays, names=[str(n) for n in range(len(arrays))]), file, options)

    csv_file._write_lines = write_lines


def xlsxwriter():
    """The sheet of rows by XlsxWriter with its fastest settings; without the sheet `summary`."""
    import xlsxwriter

    from msprobe.compare.tables import sheet
    from msprobe.compare.tables.cells import share

    def write_sheet(path, columns, rows, *, title="compare", colours=None, summary=()):
        book = xlsxwriter.Workbook(str(path), {"constant_memory": True, "strings_to_numbers": False})
        page = book.add_worksheet(title)
        fills = {grade: book.add_format({"bg_color": f"#{fill}"}) for grade, fill in sheet.FILLS.items()}
        percent = book.add_format({"num_format": sheet.PERCENT})
        heading = book.add_format({"bold": True, "text_wrap": True, "valign": "top"})
        titles = [column.title for column in columns]
        verdict = titles.index("Verdict") if "Verdict" in titles else -1
        shares = {at for at, column in enumerate(columns) if column.percent}
        for at, column in enumerate(columns):
            page.set_column(at, at, column.width, None, {"hidden": column.folded, "level": int(column.folded)})
            page.write_string(0, at, column.title, heading)
        page.freeze_panes(1, 1)
        number = 0
        for number, row in enumerate(rows, 1):
            for at, cell in enumerate(row):
                kind = type(cell)
                if kind is str:
                    if at in shares and (part := share(cell)) is not None:
                        page.write_number(number, at, part, percent)
                    elif cell:
                        page.write_string(number, at, cell, fills.get(cell) if at == verdict else None)
                elif kind is bool:
                    page.write_boolean(number, at, cell)
                else:
                    page.write_number(number, at, cell)
        page.autofilter(0, 0, number, len(titles) - 1)
        book.close()

    sheet.write_sheet = write_sheet


def openpyxl():
    """The sheet of rows by openpyxl's write-only workbook; without the sheet `summary`."""
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.styles import PatternFill

    from msprobe.compare.tables import sheet
    from msprobe.compare.tables.cells import share

    def write_sheet(path, columns, rows, *, title="compare", colours=None, summary=()):
        book = Workbook(write_only=True)
        page = book.create_sheet(title)
        fills = {grade: PatternFill("solid", start_color=f"FF{fill}") for grade, fill in sheet.FILLS.items()}
        titles = [column.title for column in columns]
        verdict = titles.index("Verdict") if "Verdict" in titles else -1
        shares = {at for at, column in enumerate(columns) if column.percent}
        page.append(titles)
        for row in rows:
            made = list(row)
            for at, cell in enumerate(made):
                if type(cell) is not str:
                    continue
                if at in shares and (part := share(cell)) is not None:
                    made[at] = styled = WriteOnlyCell(page, part)
                    styled.number_format = sheet.PERCENT
                elif at == verdict and cell in fills:
                    made[at] = styled = WriteOnlyCell(page, cell)
                    styled.fill = fills[cell]
            page.append(made)
        book.save(path)

    sheet.write_sheet = write_sheet


def pool():
    """Tasks by Python's own processes, which start our `__main__` again and are lost together if one dies."""
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    from msprobe.compare.workers import pool

    def in_pool(function, tasks, order, limit):
        with ProcessPoolExecutor(limit, mp_context=get_context("spawn")) as executor:
            futures = {executor.submit(function, tasks[at]): at for at in order}
            for future in as_completed(futures):
                yield futures[future], future.result()

    pool.in_pool = in_pool


if __name__ == "__main__":
    library = sys.argv.pop(1)
    with contextlib.suppress(KeyError):
        {
            "orjson": orjson,
            "msgspec": msgspec,
            "csv": csv,
            "pyarrow": pyarrow,
            "xlsxwriter": xlsxwriter,
            "openpyxl": openpyxl,
            "pool": pool,
        }[library]()
    from msprobe.cli import main

    sys.exit(main())
