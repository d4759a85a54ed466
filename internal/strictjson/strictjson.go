// Package strictjson decodes JSON into plain structs. It refuses all that encoding/json lets pass
// in silence: a field that the struct lacks, or whose name differs by case, a field that is given
// twice, and null. An error tells the place.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// Error is a mistake, with its place.
type Error struct {
	Path []any // from the outside to the inside: names of members (string), and indices of lists (int)
	Err  error
}

// Error returns the place and the mistake: rules[2].window: it must be a list.
func (e *Error) Error() string { return Place(e.Path) + e.Err.Error() }

// Unwrap returns the mistake.
func (e *Error) Unwrap() error { return e.Err }

// Place writes a path with a colon behind it: plans."a.b"[2].window: and a space. An empty path is
// an empty text.
func Place(path []any) string {
	var s strings.Builder
	for _, step := range path {
		name, ok := step.(string)
		if !ok {
			fmt.Fprintf(&s, "[%d]", step)
			continue
		}
		if s.Len() > 0 {
			s.WriteByte('.')
		}
		if name == "" || strings.ContainsFunc(name, special) {
			name = fmt.Sprintf("%.64q", name)
		}
		fmt.Fprintf(&s, "%.260s", name) // a quoted name may be longer
	}
	if s.Len() > 0 {
		s.WriteString(": ")
	}
	return s.String()
}

func special(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' }

// At returns err with steps before its path. Any error but an Error is a mistake at this place.
func At(err error, steps ...any) error {
	if err == nil {
		return nil
	}
	inner := &Error{Err: err}
	errors.As(err, &inner)
	return &Error{append(slices.Clone(steps), inner.Path...), inner.Err}
}

// Decode decodes text into v, a pointer to a struct, map, list, bool or [json.Unmarshaler], or to
// a pointer to one of them; members and elements may be the same. After an error, which is an
// [*Error], a part of v may be set.
func Decode(text []byte, v any) error {
	var raw json.RawMessage // without the space around it
	if err := json.Unmarshal(text, &raw); err != nil {
		return &Error{Err: fmt.Errorf("it is no JSON: %w", err)}
	}
	return At(decode(raw, reflect.ValueOf(v).Elem()))
}

func decode(raw json.RawMessage, v reflect.Value) error {
	if string(raw) == "null" {
		return errors.New("null is no value; write one, or leave the field out")
	}
	if own, ok := v.Addr().Interface().(json.Unmarshaler); ok {
		return own.UnmarshalJSON(raw)
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decode(raw, v.Elem())
	case reflect.Struct:
		return members(raw, func(name string, value json.RawMessage) error {
			for i := range v.NumField() {
				if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); tag == name {
					return decode(value, v.Field(i))
				}
			}
			return errors.New("unknown field")
		})
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		return members(raw, func(name string, value json.RawMessage) error {
			elem := reflect.New(v.Type().Elem()).Elem()
			err := decode(value, elem)
			v.SetMapIndex(reflect.ValueOf(name), elem)
			return err
		})
	case reflect.Slice:
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return errors.New("it must be a list: [value, value]")
		}
		v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
		for i, one := range list {
			if err := decode(one, v.Index(i)); err != nil {
				return At(err, i)
			}
		}
		return nil
	}
	if json.Unmarshal(raw, v.Addr().Interface()) != nil {
		return fmt.Errorf("%.40s is neither true nor false", raw) // the rest are bools
	}
	return nil
}

// members calls set for each member of an object.
func members(raw json.RawMessage, set func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("write fields as name: value")
	}
	seen := make(map[string]bool)
	for d.More() {
		t, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			return err
		}
		name, _ := t.(string)
		if seen[name] {
			return At(errors.New("the field is given twice; write it once"), name)
		}
		seen[name] = true
		if err := set(name, value); err != nil {
			return At(err, name)
		}
	}
	return nil
}
