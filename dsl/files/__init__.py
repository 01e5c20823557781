"""Reading the files of a program, within bounds and from permitted folders."""
