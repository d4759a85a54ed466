// Package llm runs package llmlimit and the example programs on it with the official SDKs of OpenAI
// and Anthropic, over fakes of their APIs. The fakes answer in the SDKs' own types, refuse fields
// that the SDKs' requests do not have, and keep a bill of their own.
package llm
