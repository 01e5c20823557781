"""Reads the files of a program, within limits and from permitted folders."""
