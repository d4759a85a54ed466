package ui

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/brimgo/brim/internal/uiapi"
)

// Bearer returns a function for [New]. It gives access to requests with the field "Authorization:
// Bearer TOKEN", as the command line sends it, and None to all others. The token should be random,
// for instance from "openssl rand -hex 16". A token of fewer than 16 characters can be guessed:
// Bearer then returns nil, which New refuses.
func Bearer(token string, access Access) func(*http.Request) Access {
	if len(token) < uiapi.MinToken {
		return nil
	}
	want := sha256.Sum256([]byte(token))
	return func(r *http.Request) Access {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		sum := sha256.Sum256([]byte(given))
		if !ok || !hmac.Equal(sum[:], want[:]) {
			return None
		}
		return access
	}
}

// fresh is the time for which a token is valid.
const fresh = 10 * time.Minute

// tokens makes and checks tokens. A token is the time of its making, eight random bytes and a MAC
// over both and over the things that it allows. Tokens of another process are not valid.
type tokens struct {
	secret [32]byte
	clock  func() time.Time

	mu   sync.Mutex
	used map[string]time.Time // decoded tokens that were spent, until they end
}

func newTokens(clock func() time.Time) *tokens {
	t := &tokens{clock: clock, used: make(map[string]time.Time)}
	_, _ = rand.Read(t.secret[:]) // never fails
	return t
}

const tokenHead = 16 // bytes before the MAC

// make returns a token that allows the given things, in this order.
func (t *tokens) make(allows ...string) string {
	var head [tokenHead]byte
	binary.BigEndian.PutUint64(head[:], uint64(t.clock().UnixNano()))
	_, _ = rand.Read(head[8:])
	return base64.RawURLEncoding.EncodeToString(append(head[:], t.mac(head[:], allows)...))
}

func (t *tokens) mac(head []byte, allows []string) []byte {
	mac := hmac.New(sha256.New, t.secret[:])
	mac.Write(head)
	for _, a := range allows {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(a)))) // so that no two lists look the same
		mac.Write([]byte(a))
	}
	return mac.Sum(nil)
}

// spend reports whether the token allows the given things, is fresh, and was not spent. It cannot
// be spent again. Several texts are the same token, because base64 ignores line breaks.
func (t *tokens) spend(token string, allows ...string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < tokenHead || !hmac.Equal(raw[tokenHead:], t.mac(raw[:tokenHead], allows)) {
		return false
	}
	now := t.clock()
	made := time.Unix(0, int64(binary.BigEndian.Uint64(raw)))
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.used, func(_ string, end time.Time) bool { return now.After(end) })
	if _, used := t.used[string(raw)]; used || made.After(now) || now.Sub(made) >= fresh {
		return false
	}
	t.used[string(raw)] = now.Add(fresh)
	return true
}

// stale is the answer to a token that is not valid.
var stale = &failure{
	status: http.StatusForbidden, title: "This page is too old",
	detail: "It was made more than ten minutes ago, by a program that has ended, for somebody else, " +
		"or its change was made already. Nothing was changed. Go back, load the page again, and repeat.",
}
