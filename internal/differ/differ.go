// Package differ says in which fields two values differ, for the messages of tests. The verb %+v
// does not: it writes a value by its String method, which may leave fields out.
package differ

import (
	"fmt"
	"iter"
	"reflect"
	"strings"
	"time"
)

// Fields returns a line for each field, element and key in which got differs from want, and "" if
// they are equal. They are equal as [reflect.DeepEqual] has it, but times by [time.Time.Equal]: the
// same time has many forms.
func Fields(got, want any) string {
	if reflect.DeepEqual(got, want) { // which compares bytes at once
		return ""
	}
	d := differences{seen: make(map[pair]bool)}
	d.compare("", reflect.ValueOf(got), reflect.ValueOf(want))
	return strings.Join(d.lines, "\n")
}

// Leaves goes through the exported fields of the structure that v points to, and of the structures
// in it, by the name and a value that can be set.
func Leaves(v any) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) { leaves(reflect.ValueOf(v).Elem(), yield) }
}

func leaves(v reflect.Value, yield func(string, reflect.Value) bool) bool {
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Struct {
			if !leaves(f, yield) {
				return false
			}
		} else if f.CanSet() && !yield(v.Type().Field(i).Name, f) {
			return false
		}
	}
	return true
}

type differences struct {
	lines []string
	seen  map[pair]bool // pointers may lead in a circle
}

type pair struct {
	got, want uintptr
	to        reflect.Type
}

// compare adds the differences between two values at that path.
func (d *differences) compare(path string, got, want reflect.Value) {
	if !got.IsValid() && !want.IsValid() {
		return
	}
	if !got.IsValid() || !want.IsValid() {
		d.add(path, got, want)
		return
	}
	if got.Type() != want.Type() {
		d.add(path+"'s type", reflect.ValueOf(got.Type()), reflect.ValueOf(want.Type()))
		return
	}
	switch kind := got.Kind(); kind {
	case reflect.Slice, reflect.Map, reflect.Func:
		if got.IsNil() != want.IsNil() || kind == reflect.Func && !got.IsNil() {
			d.add(path, got, want)
			return
		}
	}
	switch got.Kind() {
	case reflect.Struct:
		if isTime(got) && got.CanInterface() {
			if !got.Interface().(time.Time).Equal(want.Interface().(time.Time)) {
				d.add(path, got, want)
			}
			return
		}
		for i := range got.NumField() {
			d.compare(path+"."+got.Type().Field(i).Name, got.Field(i), want.Field(i))
		}
	case reflect.Pointer:
		if p := (pair{got.Pointer(), want.Pointer(), got.Type()}); !d.seen[p] {
			d.seen[p] = true
			d.compare(path, got.Elem(), want.Elem())
		}
	case reflect.Interface:
		d.compare(path, got.Elem(), want.Elem())
	case reflect.Slice, reflect.Array:
		for i := range max(got.Len(), want.Len()) {
			d.compare(fmt.Sprintf("%s[%d]", path, i), element(got, i), element(want, i))
		}
	case reflect.Map:
		for _, k := range got.MapKeys() {
			d.compare(fmt.Sprintf("%s[%v]", path, k), got.MapIndex(k), want.MapIndex(k))
		}
		for _, k := range want.MapKeys() {
			if v := got.MapIndex(k); !v.IsValid() {
				d.add(fmt.Sprintf("%s[%v]", path, k), v, want.MapIndex(k))
			}
		}
	case reflect.Func: // both are nil
	default:
		if !got.Equal(want) {
			d.add(path, got, want)
		}
	}
}

// element returns an element of a list, and no value behind the last one.
func element(list reflect.Value, i int) reflect.Value {
	if i >= list.Len() {
		return reflect.Value{}
	}
	return list.Index(i)
}

func (d *differences) add(path string, got, want reflect.Value) {
	d.lines = append(d.lines, strings.TrimPrefix(fmt.Sprintf("%s: got %s, want %s", path, text(got), text(want)), "."))
}

// text writes a value with all of its fields.
func text(v reflect.Value) string {
	switch {
	case !v.IsValid():
		return "nothing"
	case isTime(v):
		return fmt.Sprint(v)
	}
	switch v.Kind() {
	case reflect.String, reflect.Struct, reflect.Slice, reflect.Map:
		return fmt.Sprintf("%#v", v)
	}
	return fmt.Sprint(v)
}

func isTime(v reflect.Value) bool { return v.Type() == reflect.TypeFor[time.Time]() }
