"""What outlives the process, apart from where it is kept.

StoredState --contents--> manifest + objects by digest --> a folder (`serve.files`) or Secrets (`kubernetes`)
"""
