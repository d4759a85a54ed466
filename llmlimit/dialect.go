package llmlimit

import (
	"net/http"
	"path"
	"strings"
)

// dialect is the form of a call's request.
type dialect uint8

const (
	free    dialect = iota // nothing that a provider bills
	unknown                // perhaps billed, and in no form of those below
	chat                   // Chat Completions of OpenAI and others
	legacy                 // completions of a prompt
	embeddings
	responses // of OpenAI
	messages  // of Anthropic
	gemini
)

// dialectOf tells the dialect of a request by its method and path, because bodies do not tell it:
// those of messages and of messages/count_tokens look alike, and one is free. The paths of Gemini
// have the model.
func dialectOf(r *http.Request) (d dialect, model string) {
	if r.Header.Get("Upgrade") != "" || r.Header.Get("X-Http-Method-Override") != "" {
		return unknown, ""
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete:
		return free, ""
	case http.MethodPost:
	default:
		return unknown, ""
	}
	p := strings.TrimSuffix(r.URL.Path, "/")
	if path.Clean("/"+p) != p || strings.ContainsAny(p, `;?#%\`) { // a server may read another path
		return unknown, ""
	}
	dir, last := path.Split(p)
	if name, action, ok := strings.Cut(last, ":"); ok {
		switch action {
		case "generateContent", "streamGenerateContent":
			return gemini, name
		case "countTokens":
			return free, ""
		}
		return unknown, ""
	}
	parent := path.Base(dir)
	switch last {
	case "completions":
		if parent == "chat" {
			return chat, ""
		}
		return legacy, ""
	case "embeddings":
		return embeddings, ""
	case "responses":
		return responses, ""
	case "messages":
		return messages, ""
	case "files", "moderations":
		return free, ""
	case "count_tokens":
		return freeIf(parent == "messages"), ""
	case "input_tokens":
		return freeIf(parent == "responses"), ""
	case "cancel":
		return freeIf(path.Base(path.Dir(path.Clean(dir))) == "responses"), ""
	}
	return unknown, ""
}

func freeIf(ok bool) dialect {
	if ok {
		return free
	}
	return unknown
}
