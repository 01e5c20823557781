"""Makes profiles from other files: a table of raw runs, or the pickle of MeshInsight's tool.

    table of runs --runs--> Run --fit--> Fitted --making--> NewProfile
    pickle of MeshInsight --pickle_data, meshinsight--> Imported --making--> NewProfile

The pickle is read as data: nothing that it names is imported or called.
"""
