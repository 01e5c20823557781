package main

// words make bodies that a compressor finds neither trivial nor incompressible: about 4 to 1.
var words = [...]string{
	"account", "address", "amount", "availability", "booking", "city", "country", "currency", "customer", "date",
	"description", "discount", "error", "false", "hotel", "id", "item", "latitude", "longitude", "name", "night",
	"number", "offer", "order", "payment", "phone", "price", "profile", "quantity", "rating", "recommendation",
	"reservation", "review", "room", "search", "service", "status", "street", "total", "true", "user", "value",
}

// text is the same on every call: words and numbers in an order that does not repeat soon.
func text(size int) []byte {
	made := make([]byte, 0, size+16)
	state := uint32(1)
	for len(made) < size {
		state = state*1664525 + 1013904223
		made = append(made, words[int(state>>8)%len(words)]...)
		made = append(made, ' ', '0'+byte(state>>16)%10, '0'+byte(state>>24)%10, ' ')
	}
	return made[:size]
}
