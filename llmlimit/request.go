package llmlimit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// request is the body of a call, read with care: encoding/json takes MAX_TOKENS for max_tokens, and
// the last of two fields of one name, and a provider may take the other.
type request struct {
	dialect  dialect
	fields   map[string]any
	size     int64  // of the body, in bytes
	model    string // that the body names
	stream   bool
	from, to int64 // the value of stream_options in the body; 0 if there is none
}

// known are the fields at the top of a request, and in Gemini's generationConfig, on which a bound
// depends.
var known = strings.Fields(`
	model models stream stream_options background n best_of prompt prediction fallbacks image
	max_tokens max_completion_tokens max_output_tokens maxOutputTokens
	generationConfig generation_config candidateCount candidate_count
	responseModalities response_modalities modalities audio
	messages input contents system instructions systemInstruction system_instruction
	tools functions response_format text output_config responseSchema response_schema
	responseJsonSchema response_json_schema
	previous_response_id conversation cachedContent cached_content container
	web_search_options search_parameters plugins mcp_servers context_management
	service_tier serviceTier speed inference_geo
`)

// alike are the names of known in the form of plain.
var alike = func() map[string]bool {
	set := make(map[string]bool)
	for _, name := range known {
		set[plain(name)] = true
	}
	return set
}()

// plain is a name without the differences that parsers overlook: the case and, in the JSON of
// protocol buffers, underscores.
func plain(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "") }

// parse reads the body of a request. It refuses a field that is there twice, a field whose name is
// nearly that of a known one, and anything after the object.
func parse(d dialect, body []byte) (*request, error) {
	q := &request{dialect: d, size: int64(len(body))}
	if !utf8.Valid(body) { // the decoder would make three bytes of one
		return nil, errors.New("the request is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	v, err := q.value(dec, 0)
	if err == nil {
		if _, after := dec.Token(); after != io.EOF {
			err = errors.New("there is more after the object")
		}
	}
	fields, ok := v.(map[string]any)
	if err == nil && !ok {
		err = errors.New("it is no object")
	}
	if err != nil {
		return nil, fmt.Errorf("the request cannot be read as JSON: %w", err)
	}
	q.fields = fields
	for _, object := range []map[string]any{fields, q.generation()} {
		if err := checkNames(object); err != nil {
			return nil, err
		}
	}
	var wrong error
	if q.model, ok = fields["model"].(string); !ok && fields["model"] != nil {
		wrong = errors.New("model must be a text")
	}
	if q.stream, ok = fields["stream"].(bool); !ok && fields["stream"] != nil {
		wrong = errors.New("stream must be true or false")
	}
	return q, wrong
}

func checkNames(object map[string]any) error {
	seen := make(map[string]string)
	for name := range object {
		form := plain(name)
		if twin, ok := seen[form]; ok && alike[form] {
			return fmt.Errorf("the request has both %.40q and %.40q; send one of them", min(name, twin), max(name, twin))
		}
		if seen[form] = name; alike[form] && !slices.Contains(known, name) {
			return fmt.Errorf("the request has the field %.40q; write its name as the provider documents it", name)
		}
	}
	return nil
}

// value reads the next value of a body.
func (q *request) value(dec *json.Decoder, depth int) (any, error) {
	if depth > 200 {
		return nil, errors.New("it is nested deeper than 200 levels")
	}
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		return q.object(dec, depth)
	case json.Delim('['):
		var list []any
		for dec.More() {
			v, err := q.value(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	}
	return t, nil
}

// object reads the fields of an object, after its brace.
func (q *request) object(dec *json.Decoder, depth int) (map[string]any, error) {
	object := make(map[string]any)
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if !ok {
			return nil, errors.New("a name of a field is no text")
		}
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("it has the field %.40q twice", name)
		}
		from := dec.InputOffset()
		if object[name], err = q.value(dec, depth+1); err != nil {
			return nil, err
		}
		if depth == 0 && name == "stream_options" {
			q.from, q.to = from, dec.InputOffset()
		}
	}
	_, err := dec.Token()
	return object, err
}

// generation returns the settings of Gemini.
func (q *request) generation() map[string]any {
	settings, _ := first(q.fields, "generationConfig", "generation_config").(map[string]any)
	return settings
}

// first returns the value of the first name that an object has.
func first(object map[string]any, names ...string) any {
	for _, name := range names {
		if v := object[name]; v != nil {
			return v
		}
	}
	return nil
}

// number returns a field that must be a whole number from 0 on, and whether it is there.
func number(object map[string]any, names ...string) (n int64, ok bool, err error) {
	switch v := first(object, names...).(type) {
	case nil:
		return 0, false, nil
	case json.Number:
		n, err = v.Int64()
		if err == nil && n >= 0 {
			return n, true, nil
		}
	}
	return 0, false, fmt.Errorf("%s must be a whole number, and not negative", names[0])
}

// asksUsage reports whether a stream in this form tells its usage.
func (q *request) asksUsage() bool {
	o, _ := q.fields["stream_options"].(map[string]any)
	asks, _ := o["include_usage"].(bool)
	return asks
}

// withUsage returns the body of a stream of Chat Completions with a demand for its usage. All other
// bytes stay as they are.
func (q *request) withUsage(body []byte) ([]byte, error) {
	o, _ := q.fields["stream_options"].(map[string]any)
	o = maps.Clone(o)
	if o == nil {
		o = make(map[string]any)
	}
	o["include_usage"] = true
	value, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	if q.to > 0 {
		return slices.Concat(body[:q.from], []byte(":"), value, body[q.to:]), nil
	}
	brace := bytes.IndexByte(body, '{') + 1
	return slices.Concat(body[:brace], []byte(`"stream_options":`), value, []byte(","), body[brace:]), nil
}
