"""Authentication of xDS clients, denied by default.

token or certificate --tokens, tls--> claims --identity--> the services that this client may ask for
log of gRPC --grpc_log, handshakes--> why a handshake failed
"""
