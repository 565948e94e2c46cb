"""Pictures of an answer: its boxes, points and events drawn on the file that it is about.

1. `marks` reads boxes, points and events out of a reasoner's answer.
2. `drawing` draws them on one picture.
3. `answer_sheet` puts pictures of a clip on one page, with the answer above and a timeline of its events below.
4. `overlay` writes the file again with the marks drawn on it.
"""
