"""A plan or a difference as one HTML page, complete in itself.

    Plan -> plan_page.plan_page ---.
                                    > Page -> html.render -> bytes
    Diff -> diff_page.diff_page ---'

A `Page` says in plain text what is shown and where; `web/page.js` draws it in the browser, and decides nothing.
"""
