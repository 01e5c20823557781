module admc.test/measurement

go 1.24
