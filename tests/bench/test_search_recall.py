"""How well the gateway's search finds the right tool for a question (`bench/search.py`).

It is measured with a set of tools, and of questions that are labelled with the right tools.
"""

from bench.search import find_missed, read_questions, read_tools


def test_the_set_is_large_and_each_right_tool_is_in_it() -> None:
    tools, questions = read_tools(), read_questions()
    assert len(tools) >= 300 and len(questions) >= 100
    assert len({question.text for question in questions}) == len(questions)
    assert all(question.answers <= tools.keys() for question in questions)


def test_the_right_tool_is_among_the_first_eight_of_nine_questions_in_ten() -> None:
    tools, questions = read_tools(), read_questions()
    missed = find_missed(tools, questions)
    assert len(missed) <= 0.1 * len(questions), [question.text for question in missed]
