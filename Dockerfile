# syntax=docker/dockerfile:1
# The where-clause parser is Postgres's own, in C, so the program needs a C compiler to build and glibc to run.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
RUN CGO_ENABLED=1 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/shapeserver ./cmd/shapeserver \
 && mkdir -p /out/data

# distroless/base is glibc, CA certificates and time zones; no shell. Its user nonroot is 65532.
FROM gcr.io/distroless/base-debian12:nonroot
COPY --from=build /out/shapeserver /usr/local/bin/shapeserver
COPY --from=build --chown=65532:65532 /out/data /var/lib/shapeserver
ENV SHAPESERVER_STORAGE_DIR=/var/lib/shapeserver
VOLUME /var/lib/shapeserver
EXPOSE 3000
# 202 (starting, or waiting for another server to stop) is healthy too: see deploy/README.md.
HEALTHCHECK --interval=5s --timeout=4s --start-period=10s CMD ["/usr/local/bin/shapeserver", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/shapeserver"]
CMD ["serve"]
