import { connect as tcpConnect } from "node:net";
import { connect as tlsConnect } from "node:tls";
import { type LoopbackRelay, openLoopbackRelay } from "../../../kernel/net/loopback-relay.ts";

const RTMP_PORT = 1_935;
const RTMPS_PORT = 443;

/**
 * Lets ffmpeg send to a loopback port, and connects it to the IP address that was checked: ffmpeg would resolve the name again, and
 * the answer might be another. TLS begins here, with the certificate checked against the name.
 */
export function openRtmpRelay(url: URL, address: string): Promise<LoopbackRelay> {
  const isTls = url.protocol === "rtmps:";
  const port = url.port === "" ? (isTls ? RTMPS_PORT : RTMP_PORT) : Number(url.port);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  return openLoopbackRelay((client, joinTo) => {
    const upstream = isTls
      ? tlsConnect({ host: address, port, ...(host === address ? {} : { servername: host }) })
      : tcpConnect({ host: address, port });
    joinTo(upstream);
    client.pipe(upstream);
    upstream.pipe(client);
  });
}
