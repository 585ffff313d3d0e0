package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	yamlparser "github.com/goccy/go-yaml/parser"
)

// parseConfig reads a configuration file into the texts that flags and the environment would have: a scalar is what is written, without its quotes; a list is
// []string; a mapping, for flags of NAME=VALUE, is map[string]any. A setting without a value or with null is left out. lines are those of the names. No error shows a value, which may
// be a secret.
func parseConfig(data []byte) (values map[string]any, lines map[string]int, err error) {
	defer func() {
		if recover() != nil { // the library is not hardened
			err = errors.New("must be YAML")
		}
	}()
	file, err := yamlparser.ParseBytes(data, 0)
	if err != nil {
		if at, ok := errors.AsType[yaml.Error](err); ok && at.GetToken() != nil && at.GetToken().Position != nil {
			return nil, nil, fmt.Errorf("line %d: must be YAML: %s", at.GetToken().Position.Line, at.GetMessage())
		}
		return nil, nil, errors.New("must be YAML")
	}
	values, lines = make(map[string]any), make(map[string]int)
	for i, doc := range file.Docs {
		switch {
		case doc.Body == nil:
			continue
		case i > 0:
			return nil, nil, fmt.Errorf("line %d: must be one YAML document, not several", lineOf(doc.Body))
		}
		pairs, ok := pairsOf(doc.Body)
		if !ok {
			return nil, nil, fmt.Errorf("line %d: must be lines of NAME: VALUE, with white space behind the colon", lineOf(doc.Body))
		}
		for _, pair := range pairs {
			name := textOf(pair.Key)
			if name == nil {
				return nil, nil, fmt.Errorf("line %d: a name must be a text", lineOf(pair.Key))
			}
			lines[*name] = lineOf(pair.Key)
			if _, null := pair.Value.(*ast.NullNode); null {
				continue
			}
			if values[*name], err = valueOf(pair.Value); err != nil {
				return nil, nil, fmt.Errorf("line %d: %s %w", lineOf(pair.Value), settingName(*name), err)
			}
		}
	}
	return values, lines, nil
}

func valueOf(node ast.Node) (any, error) {
	if text := textOf(node); text != nil {
		return *text, nil
	}
	if list, ok := node.(*ast.SequenceNode); ok {
		texts := make([]string, len(list.Values))
		for i, element := range list.Values {
			text := textOf(element)
			if text == nil {
				return nil, errors.New("has an element that is no text and no number")
			}
			texts[i] = *text
		}
		return texts, nil
	}
	if pairs, ok := pairsOf(node); ok {
		members := make(map[string]any)
		for _, pair := range pairs {
			name, text := textOf(pair.Key), textOf(pair.Value)
			if name == nil || text == nil {
				return nil, errors.New("has members: must be a text or a number; a text in braces needs quotes, such as \"{takt}\"")
			}
			members[*name] = *text
		}
		return members, nil
	}
	return nil, errors.New("must be a text, a number, true, false or a list, without tags, anchors and aliases")
}

// textOf is a scalar as it is written, without quotes; nil if node is none.
func textOf(node ast.Node) *string {
	switch n := node.(type) {
	case *ast.StringNode:
		return &n.Value
	case *ast.LiteralNode:
		return &n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return &n.GetToken().Value
	}
	return nil
}

func pairsOf(node ast.Node) (pairs []*ast.MappingValueNode, ok bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func lineOf(node ast.Node) int {
	if token := node.GetToken(); token != nil && token.Position != nil {
		return token.Position.Line
	}
	return 1
}

// settingName is the name of a setting for an error. What follows a colon or white space may be a value that lacks the white space behind its colon.
func settingName(name string) string {
	if i := strings.IndexAny(name, ": \t\r\n="); i >= 0 {
		return fmt.Sprintf("%.40q...", name[:i])
	}
	return fmt.Sprintf("%.40q", name)
}
