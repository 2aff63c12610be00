# A host in a container: an ordinary user, a root file system that can be read-only, and only two
# writable folders. See docs/howto/container.md.
#
#   docker build --tag exthost .
#   docker run --rm --read-only --tmpfs /tmp --volume state:/var/lib/exthost \
#       --volume "$PWD":/config:ro exthost list --config /config/exthost.toml

ARG PYTHON=3.13

FROM python:${PYTHON}-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
COPY sdk sdk
RUN python -m venv /opt/exthost \
    && /opt/exthost/bin/python -m pip install --no-cache-dir --constraint constraints.txt ./sdk ".[all]" \
    && /opt/exthost/bin/python -m compileall -q /opt/exthost

FROM python:${PYTHON}-slim-bookworm
# bubblewrap makes sandboxes where the container allows user namespaces; util-linux has setpriv and
# prlimit. Servers in Node need nodejs: build an image FROM this one and install it there.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap util-linux ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 exthost \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/exthost exthost \
    && install --directory --owner 10001 --group 10001 --mode 0700 /var/lib/exthost
COPY --from=build /opt/exthost /opt/exthost
ENV PATH=/opt/exthost/bin:$PATH \
    EXTHOST_HOME=/var/lib/exthost \
    HOME=/var/lib/exthost \
    PYTHONDONTWRITEBYTECODE=1
VOLUME /var/lib/exthost
WORKDIR /config
# A number, so that Kubernetes can check runAsNonRoot.
USER 10001:10001
# SIGTERM drains the host.
STOPSIGNAL SIGTERM
ENTRYPOINT ["exthost"]
CMD ["run", "--config", "/config/exthost.toml"]
