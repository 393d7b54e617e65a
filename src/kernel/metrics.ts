import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

/** One registry per server, so that two servers in one process (tests) do not share figures. */
export type Metrics = {
  registry: Registry;
  counter(name: string, help: string, labels?: string[]): Counter;
  gauge(name: string, help: string, labels?: string[]): Gauge;
  /** A gauge that is read when it is scraped. */
  gaugeOf(name: string, help: string, read: () => number | null): void;
  histogram(name: string, help: string, buckets: number[], labels?: string[]): Histogram;
};

export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  return {
    registry,
    counter: (name, help, labelNames = []) => new Counter({ name, help, labelNames, registers }),
    gauge: (name, help, labelNames = []) => new Gauge({ name, help, labelNames, registers }),
    gaugeOf(name, help, read) {
      new Gauge({
        name,
        help,
        registers,
        collect() {
          const value = read();
          if (value === null) this.reset();
          else this.set(value);
        },
      });
    },
    histogram: (name, help, buckets, labelNames = []) => new Histogram({ name, help, buckets, labelNames, registers }),
  };
}
