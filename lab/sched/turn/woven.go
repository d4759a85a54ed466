package turn

// Woven reports whether this program was built with woven subjects.
const Woven = false
