/** What the older and the newer process of an upgrade tell each other over the channel between parent and child. */
import type { HandedOverInputs } from "../gateways/livekit/ingress/ingresses.ts";
import type { LoopbackTransport } from "../kernel/net/loopback-transport.ts";
import type { SharedPort } from "../sfu/transport/port-sharing/port-sharing.ts";

export type ToNewer =
  /** Asks the newer process to check the data and the settings, and to bind the media ports. */
  | { type: "check"; httpPort: number; tlsPort: number | null; ports: SharedPort[] }
  /** The data and the calls now belong to the newer process. Earlier versions omit `inputs`. */
  | { type: "released"; inputs?: HandedOverInputs };

export type ToOlder =
  | { type: "ready"; version: string }
  /** The newer process answers requests, and takes over waiting ones through `loopback`. */
  | { type: "serving"; version: string; loopback: LoopbackTransport }
  /** The newer process cannot take over, and exits. */
  | { type: "refused"; reason: string };
