declare module "../kernel/bus.ts" {
  interface BusEvents {
    /** A media node registered or sent a heartbeat. */
    rtcServerSeen: { name: string; internalUrl: string };
  }
}

export {};
