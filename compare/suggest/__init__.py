"""Write the pairs that the search for counterparts finds as mapping files of the user."""
