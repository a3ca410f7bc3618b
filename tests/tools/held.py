"""Which of the texts on standard input (JSON: grammar, texts) an engine would let a model say in full: a JSON list."""
import json
import sys

import llguidance

given = json.load(sys.stdin)
grammar = llguidance.grammar_from("lark", given["grammar"])
wrong = llguidance.LLMatcher.validate_grammar(grammar)
if wrong:
    sys.exit(wrong)
tokens = llguidance.LLTokenizer("byte")


def says(text):
    matcher = llguidance.LLMatcher(tokens, grammar, log_level=0)
    return bool(matcher.consume_tokens(tokens.tokenize_str(text))) and matcher.is_accepting()


print(json.dumps([says(text) for text in given["texts"]]))
