"""The state that outlives the process, independent of the place where it is stored.

StoredState --contents--> manifest + objects by digest --> a folder (`serve.files`) or Secrets (`kubernetes`)
"""
