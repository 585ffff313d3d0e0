package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cschleiden/go-workflows/client"

	gowf "github.com/cschleiden/go-workflows/workflow"

	"github.com/taktworks/takt/workflow"
	"github.com/taktworks/takt/workflow/goworkflows"
)

// usual are the terms of most orders.
var usual = Terms{Promise: 30 * time.Second, GiveUp: time.Minute, BackOff: 200 * time.Millisecond, Tries: 2}

// place starts the workflow of an order. Two orders of a customer run at once, others wait for their turn; and they can be looked for by customer.
func place(ctx context.Context, b *goworkflows.Backend, o Order) (*gowf.Instance, error) {
	return b.Start(ctx, goworkflows.StartOptions{
		WorkflowInstanceOptions: client.WorkflowInstanceOptions{InstanceID: o.Number},
		Attributes:              map[string]string{"customer": o.Customer},
		Gate:                    &workflow.Gate{Key: "customer:" + o.Customer, Max: 2},
	}, orderToCash, o)
}

// day is a day of orders, with what goes wrong on it.
type day struct {
	*plant
	b      *goworkflows.Backend
	out    io.Writer
	next   int // number of the next order
	orders []Order
}

func (d *day) run() error {
	for _, part := range [...]func() error{d.killed, d.compensated, d.away, d.verify} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// killed: three orders of one customer, and the worker dies in the midst of them.
func (d *day) killed() error {
	d.say("ada orders three times. Two orders of a customer run at once, the third waits for its turn. When the machine begins, the worker is killed with kill -9, and another one is started.")
	if err := d.hire(); err != nil {
		return err
	}
	orders := []Order{d.order("ada", usual, "cover:2", "cover"), d.order("ada", usual, "cover"), d.order("ada", usual, "cover")}
	running, err := d.placeAll(orders)
	if err != nil {
		return err
	}
	if err := d.diary.await(d.ctx, "cell: received "+orders[0].Number); err != nil {
		return err
	}
	dead := d.worker.cmd.Process.Pid
	if err := d.dismiss(syscall.SIGKILL); err != nil {
		return err
	}
	if err := d.hire(); err != nil {
		return err
	}
	d.say(fmt.Sprintf("(worker %d is dead, worker %d goes on)", dead, d.worker.cmd.Process.Pid))
	return d.settle(orders, running, true)
}

// compensated: orders that cannot be delivered.
func (d *day) compensated() error {
	d.say("bob orders a prototype that the machine cannot make, and a housing, which is milled meanwhile. cyd orders beyond the credit.")
	orders := []Order{d.order("bob", usual, "prototype", "housing"), d.order("cyd", usual, "prototype:9")}
	running, err := d.placeAll(orders)
	if err != nil {
		return err
	}
	return d.settle(orders, running, false)
}

// away: the machine is off for longer than was promised.
func (d *day) away() error {
	d.say("The machine is switched off. dan orders, and is promised the goods within a second. When dan has been told of the delay, the machine is switched on again.")
	if err := d.off(); err != nil {
		return err
	}
	express := usual
	express.Promise = time.Second
	orders := []Order{d.order("dan", express, "cover:4")}
	running, err := d.placeAll(orders)
	if err == nil {
		err = d.diary.await(d.ctx, "delay "+orders[0].Number)
	}
	if err == nil {
		err = d.switchOn()
	}
	if err != nil {
		return err
	}
	return d.settle(orders, running, true)
}

// settle waits for the ends of orders and tells of each. It fails if one did not come to the end that was expected.
func (d *day) settle(orders []Order, running []*gowf.Instance, delivered bool) error {
	var errs []error
	for i, o := range orders {
		end, err := goworkflows.Result[Outcome](d.ctx, d.b, running[i])
		if err != nil {
			return fmt.Errorf("%s: %w", o.Number, err)
		}
		if err := account(d.ctx, d.out, d.b, o); err != nil {
			return err
		}
		if end.Delivered != delivered {
			errs = append(errs, fmt.Errorf("%s: delivered: %v, %s; want %v", o.Number, end.Delivered, end.Why, delivered))
		}
	}
	return errors.Join(errs...)
}

// verify compares what the machine and the books say, which know nothing of workflows.
func (d *day) verify() error {
	executed := d.diary.all("cell: executed")
	slices.Sort(executed)
	if once := slices.Compact(slices.Clone(executed)); len(once) != len(executed) {
		return fmt.Errorf("the machine did something twice: %q", executed)
	}
	b, err := d.books()
	if err != nil {
		return err
	}
	count := map[string]int{}
	for _, o := range d.orders {
		var has []string // of this order, in the order of kinds
		for _, kind := range kinds {
			_, there, err := b.find(kind + " " + o.Number)
			if err != nil {
				return err
			}
			if there {
				has = append(has, kind)
				count[kind]++
			}
		}
		switch strings.Join(has, " ") {
		case "credit shipment invoice", "credit shipment invoice delay", "credit release apology", "apology":
		default:
			return fmt.Errorf("the books have %q for %s", has, o.Number)
		}
	}
	d.say(fmt.Sprintf("The machine has done nothing twice, in %d actions.", len(executed)))
	fmt.Fprintf(d.out, "The books have %d invoices for %d shipments, and %d apologies. Credit was reserved %d times, and released %d times.\n",
		count["invoice"], count["shipment"], count["apology"], count["credit"], count["release"])
	return nil
}

// order makes an order of products such as "cover:2".
func (d *day) order(customer string, terms Terms, products ...string) Order {
	o := Order{Number: fmt.Sprintf("SO-%d", d.next+len(d.orders)), Customer: customer, Lines: linesOf(products), Terms: terms}
	d.orders = append(d.orders, o)
	return o
}

func (d *day) placeAll(orders []Order) (running []*gowf.Instance, err error) {
	for _, o := range orders {
		i, err := place(d.ctx, d.b, o)
		if err != nil {
			return nil, err
		}
		running = append(running, i)
	}
	return running, nil
}

func (d *day) say(text string) { fmt.Fprintf(d.out, "\n%s\n", text) }

// linesOf reads lines such as "cover:2", at the prices of the catalogue.
func linesOf(products []string) (lines []Line) {
	for _, p := range products {
		name, quantity, _ := strings.Cut(p, ":")
		n, err := strconv.Atoi(quantity)
		if err != nil || n < 1 {
			n = 1
		}
		lines = append(lines, Line{Product: name, Quantity: n, Price: catalogue[name]})
	}
	return lines
}

// orderByHand places one order and tells how it went.
func orderByHand(ctx context.Context, s settings, customer string, products []string, out io.Writer) error {
	b, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	o := Order{Number: fmt.Sprintf("SO-%d", time.Now().UnixMilli()), Customer: customer, Lines: linesOf(products), Terms: usual}
	i, err := place(ctx, b, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is placed\n", o.Number)
	if _, err := goworkflows.Result[Outcome](ctx, b, i); err != nil {
		return err
	}
	return account(ctx, out, b, o)
}
