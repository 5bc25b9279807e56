package api

import "net/http"

// SetInHand lets tests meet the bound on requests in hand.
func (s *Server) SetInHand(n int) { s.inHand = make(chan struct{}, n) }

// Hold takes one place in hand and returns what gives it back.
func (s *Server) Hold() func() {
	s.inHand <- struct{}{}
	return func() { <-s.inHand }
}

// Handler exposes what turns errors and panics into answers.
func (s *Server) Handler(h func(http.ResponseWriter, *http.Request) error) http.Handler {
	return s.handler(h)
}

// Routes lists the route table as method and path.
func (s *Server) Routes() [][2]string {
	var list [][2]string
	for _, r := range s.table() {
		list = append(list, [2]string{r.method, r.path})
	}
	return list
}

// CodeOf is the code that an error is answered with.
func CodeOf(err error) Code { return faultOf(err).code }
