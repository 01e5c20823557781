"""One replica serves, the others stand by (docs/cluster/standby.md, docs/adr/0029).

stands by --holds the Lease--> active --another holds it--> exits
   | keeps the stored state ready   | its address in the EndpointSlice, serves
"""
