// The chunks of the page: zlib and base64, decoded when they are asked for; the last ones are kept.

const KEPT = 24;

/** Bytes of base64 text. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/** The object that a chunk holds. Raises where the data are damaged. */
export async function decoded(text: string): Promise<unknown> {
  const inflated = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(inflated).text());
}

export class Chunks {
  private readonly kept = new Map<number, Promise<unknown>>();

  constructor(private readonly textOf: (number: number) => string | null) {}

  /** The object of chunk `number`; the same promise as long as it is kept. */
  get<T>(number: number): Promise<T> {
    let one = this.kept.get(number);
    if (one) this.kept.delete(number);
    else {
      const text = this.textOf(number);
      one = text === null ? Promise.reject(new Error(`chunk ${number} is missing`)) : decoded(text);
    }
    this.kept.set(number, one); // Last used, last to go.
    if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value as number);
    return one as Promise<T>;
  }
}

/** The chunks of this document. */
export function ofDocument(): Chunks {
  return new Chunks((number) => document.getElementById(`chunk-${number}`)?.textContent ?? null);
}
