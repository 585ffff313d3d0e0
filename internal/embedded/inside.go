package embedded

import "context"

// inside is a server in this process. Its methods are called with the lock of its Server.
type inside struct {
	open func() (end func(kill bool) error, err error) // makes a new server for every start

	end  func(kill bool) error
	gone chan struct{} // closed when it has ended
}

func (p *inside) start(context.Context) (err error) {
	p.end, err = p.open()
	p.gone = make(chan struct{})
	return err
}

func (p *inside) stop() error { return p.close(false) }

func (p *inside) kill() error { return p.close(true) }

func (p *inside) close(kill bool) error {
	defer close(p.gone)
	return p.end(kill)
}

func (p *inside) pid() int { return 0 }

func (p *inside) done() <-chan struct{} { return p.gone }
