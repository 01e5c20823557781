"""Authentication of xDS clients, denied by default.

    token --tokens--> claims, or a certificate that gRPC has verified
        --identity--> the service whose configuration the client receives
    log of gRPC --grpc_log, handshakes--> causes of failed handshakes

`tls` has the server's own certificate.
"""
