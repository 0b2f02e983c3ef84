"""The first call of a dump that made NaN or infinities out of finite values, among all ranks."""
