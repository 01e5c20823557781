# The image of admc: the server in a cluster, and the init containers that `admc inject` puts into pods.
#
#   docker build -t admc:0.1.0 .
#   docker buildx build --platform linux/amd64,linux/arm64 -t REGISTRY/admc:0.1.0 --push .
#
# .dockerignore admits what it is made of, and nothing else. A build needs a registry with the base image, PyPI, and
# Debian's packages.
ARG PYTHON=3.11-slim-trixie

FROM python:${PYTHON} AS build
WORKDIR /src
RUN python -m venv --without-pip /admc && python -m venv /build
# Before the code, so that these layers stay where only the code changes. Only wheels: nothing is compiled, for either
# architecture. The hashes are those of requirements.lock.
COPY requirements.lock requirements-build.in pyproject.toml ./
COPY deploy/requirements.py deploy/requirements.py
RUN python deploy/requirements.py server > /server.txt \
 && python deploy/requirements.py build > /build.txt \
 && pip --python /admc install --no-cache-dir --require-hashes --only-binary :all: -r /server.txt \
 && pip --python /build install --no-cache-dir --require-hashes --only-binary :all: -r /build.txt
COPY README.md LICENSE ./
COPY admc admc
COPY dsl dsl
COPY emitters emitters
COPY solver solver
COPY xds_server xds_server
RUN /build/bin/pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir /wheels . \
 && pip --python /admc install --no-cache-dir --no-index --no-deps /wheels/*.whl

FROM python:${PYTHON}
# What the rules of a pod are loaded with.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends iptables \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /admc /admc
ENV PATH=/admc/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# Nothing is written to the image's file system. The rules of a pod alone run as root: `admc inject` says so.
USER 65532:65532
ENTRYPOINT ["python", "-m", "admc"]
