import type { Config } from "../kernel/config/index.ts";
import { TlsListenError } from "../network/tls/tls-multiplexer.ts";
import { CommandFailure } from "./failure.ts";

/** Explains why a port is unavailable; null for other errors. */
export function listenFailure(error: unknown, { HOST, PORT }: Pick<Config, "HOST" | "PORT">): CommandFailure | null {
  if (error instanceof TlsListenError) return tlsFailure(error);
  if (!(error instanceof Error && "code" in error)) return null;
  switch (error.code) {
    case "EADDRINUSE":
      return new CommandFailure(`port ${PORT} of ${HOST} is taken. Choose another with --port.`);
    case "EADDRNOTAVAIL":
      return new CommandFailure(`${HOST} is not an address of this machine. Choose another with --host.`);
    case "EACCES":
      // Access to files can be denied as well, with the same code.
      if ("syscall" in error && error.syscall === "listen") {
        return new CommandFailure(
          `port ${PORT} is reserved for root. Choose one from 1024 with --port, or give the program CAP_NET_BIND_SERVICE.`,
        );
      }
      return null;
    default:
      return null;
  }
}

function tlsFailure({ code, port, message, isTurnPort }: TlsListenError): CommandFailure {
  const flag = isTurnPort ? "--turn-udp-port" : "--edge-port";
  if (code === "EADDRINUSE") {
    const otherwise = isTurnPort ? "" : ", or --port without a domain";
    return new CommandFailure(`port ${port} is taken. Choose another with ${flag}${otherwise}.`);
  }
  if (code === "EACCES") {
    return new CommandFailure(
      `port ${port} is reserved for root. Give the program CAP_NET_BIND_SERVICE, or choose another with ${flag}.`,
    );
  }
  return new CommandFailure(`port ${port} is unavailable: ${message}`);
}
