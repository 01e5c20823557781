"""Profiles made of files that are none.

    table of runs --runs--> Run --fit--> NewProfile
    pickle of MeshInsight --pickle_data, meshinsight--> NewProfile

The pickle is read as data: nothing that it names is imported or called.
"""
