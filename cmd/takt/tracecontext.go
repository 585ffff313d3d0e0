package main

import (
	"context"
	"os"

	"go.opentelemetry.io/otel/propagation"
)

// The trace context of a process that takt starts or that starts takt: the two headers of W3C Trace Context as variables.
var traceVariables = map[string]string{"traceparent": "TRACEPARENT", "tracestate": "TRACESTATE"}

// fromEnvironment puts ctx into the span that whoever started this process was in.
func fromEnvironment(ctx context.Context) context.Context {
	said := propagation.MapCarrier{}
	for header, variable := range traceVariables {
		said[header] = os.Getenv(variable)
	}
	return propagation.TraceContext{}.Extract(ctx, said)
}

// toEnvironment tells a process of the span that ctx is in, if any, and hides that of our own starter from it.
func toEnvironment(ctx context.Context) (env []string) {
	said := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, said)
	for header, variable := range traceVariables {
		env = append(env, variable+"="+said[header])
	}
	return env
}
