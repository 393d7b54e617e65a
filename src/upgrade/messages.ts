/** What the older and the newer process of an upgrade tell each other over the channel between parent and child. */
import type { HandedOverInputs } from "../gateways/livekit/ingress/ingresses.ts";
import type { LoopbackTransport } from "../kernel/net/loopback-transport.ts";
import type { SharedPort } from "../sfu/transport/port-sharing/port-sharing.ts";

export type ToNewer =
  /** The newer process checks the data and the settings, and binds the media ports. */
  | { type: "check"; httpPort: number; tlsPort: number | null; ports: SharedPort[] }
  /** The data and the calls are the newer process's. Earlier versions leave no `inputs`. */
  | { type: "released"; inputs?: HandedOverInputs };

export type ToOlder =
  | { type: "ready"; version: string }
  /** The newer process answers requests, and takes over the waiting ones by `loopback`. */
  | { type: "serving"; version: string; loopback: LoopbackTransport }
  /** The newer process cannot take over, and ends. */
  | { type: "refused"; reason: string };
