"""A plan or a difference as one HTML page, complete in itself.

    Plan -> plan_page.plan_page ---.
                                    > Page -> html.render -> bytes
    Diff -> diff_page.diff_page ---'

A `Page` contains all texts, and the places of all boxes and lines. `web/page.js` draws them in the browser, and decides
nothing.
"""
