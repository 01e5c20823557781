"""Reads Kubernetes manifests: streams of YAML or JSON, which may be hostile.

    bytes --text--> SourceText --read--> Document, or what is wrong with it --objects--> Object --span--> line

A stream is read document by document. JSON is read by Python's own parser (`json_values`); what is no JSON, or is
refused by a bound, is read as YAML (`yaml_values`), whose parser knows each place. The line of a field is looked for
only when a message needs it (`places`), since marks of all fields take more memory than the values.
"""
