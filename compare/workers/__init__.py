"""Tasks run elsewhere: on processes of this machine or on a Dask cluster, with one interface for both."""
