"""Checksums of the polynomials alone: table by byte, the table bit by bit."""


def _table(polynomial):
    found = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (polynomial if byte & 1 else 0)
        found.append(byte)
    return found


def _crc(data, table):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


_CRC32, _CRC32C = _table(0xEDB88320), _table(0x82F63B78)


def crc32_by_hand(data):
    """CRC-32 of bytes."""
    return _crc(data, _CRC32)


def crc32c_by_hand(data):
    """CRC-32C of bytes."""
    return _crc(data, _CRC32C)
