# The image of podlayer: one static program, run by a user without rights.
#
#   docker build -t podlayer:0.1.0 .
#   docker buildx build --platform linux/amd64,linux/arm64 -t REPOSITORY:0.1.0 --push .
#
# The program is built on the platform that it is for (docs/release.md says what that costs). On Alpine, Rust links
# statically with musl; rust-toolchain.toml names the same version.
FROM docker.io/library/rust:1.95-alpine AS build
# ring holds C and assembler.
RUN apk add --no-cache gcc musl-dev
WORKDIR /src
COPY . .
# The toolchain of this image, not one that rustup would fetch.
RUN RUSTUP_TOOLCHAIN=$(rustup default | cut -d' ' -f1) cargo build --release --locked --bin podlayer \
    && mkdir /out \
    && strip --strip-debug -o /out/podlayer target/release/podlayer

FROM scratch
LABEL org.opencontainers.image.title="podlayer" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/podlayer /podlayer
# A number, for `runAsNonRoot` can't judge a name.
USER 65532:65532
# Memory that is given back soon, and no huge pages of which it would use a tenth (docs/decisions/0024).
ENV MIMALLOC_ALLOW_THP=0 MIMALLOC_PURGE_DELAY=10
EXPOSE 10250 8080
ENTRYPOINT ["/podlayer"]
