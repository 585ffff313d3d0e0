package task

// LockKeys are the keys of the locks that a task with these arguments needs.
func LockKeys[T, R any](t *Type[T, R], args T) (keys []string) {
	if t.lockSpecs == nil {
		return nil
	}
	for _, s := range t.lockSpecs(args) {
		keys = append(keys, s.Key(""))
	}
	return keys
}

// InForce is what a worker knows to be set of a type; a zero Override if it knows of nothing.
func InForce(w *Worker, name, vo string) Override {
	if s := w.control.current.Load().settings; s != nil {
		return s.For(name, vo)
	}
	return Override{}
}

// FindAmong is Find that reads no more messages than that.
var FindAmong = (*Client).findAmong
