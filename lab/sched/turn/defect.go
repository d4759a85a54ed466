package turn

// defect is the name of the defect that subjects have.
var defect string

// Defective reports whether the subjects have the defect of that name.
func Defective(name string) bool { return defect == name }

// SetDefect gives the subjects a defect, or none if name is "".
func SetDefect(name string) { defect = name }
