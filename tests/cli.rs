//! The command line as a person meets it: help, misspelt words, exit codes, formats.
