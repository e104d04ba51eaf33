"""Commands in the documentation are commands of mlpot, with its options."""

import pytest
from documentation import commands, mentions, scripts
from left_out import options, script
from verbs import VERBS, parse

COMMANDS = commands()
#: Words that stand for any verb, file or value.
PLACEHOLDERS = ("VERB",)


def test_there_are_commands():
    assert len(COMMANDS) > 40
    assert {words[0] for _, words in COMMANDS} >= set(VERBS) - {"resume"}


@pytest.mark.parametrize(("file", "words"), COMMANDS, ids=lambda one: " ".join(one)[:60])
def test_command_parses(file, words):
    parse(words)


@pytest.mark.parametrize(
    "words", [["md", "--modle", "x"], ["phonon", "x"], ["eval"], ["eos", "--points", "many"]]
)
def test_wrong_commands_are_noticed(words):
    with pytest.raises(Exception, match=r"modle|no verb|Missing|valid integer"):
        parse(words)


@pytest.mark.parametrize(("file", "words"), mentions(), ids=lambda one: " ".join(one)[:60])
def test_mentioned_verb_and_options_exist(file, words):
    verb, *further = words
    if verb in PLACEHOLDERS:
        return
    assert verb in VERBS
    known = {option for one in VERBS[verb].params for option in (*one.opts, *one.secondary_opts)}
    used = {word.rstrip(".,;:") for word in further if word.startswith("--")}
    assert used <= known | {"--help", "--debug"}


@pytest.mark.parametrize(("file", "command"), scripts(), ids=lambda one: one[:60])
def test_mentioned_script_and_options_exist(file, command):
    script(command)
    if " --" in command:
        options(command)
