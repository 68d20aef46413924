// What the programs share: settings come in as JSON, the user's browser is the test.
import { createInterface } from "node:readline";

export const SITE = "https://app.example";
export const settings = JSON.parse(process.argv[2]);

/**
 * Tell where the user's browser has to go, hear where it came back to, and tell who has signed in.
 * @param begin gives the address of the authorization request
 * @param finish from the callback's whole address to `sub` or `email`, and `access_token`
 */
export async function converse(begin, finish) {
  console.log(JSON.stringify({ url: await begin() }));
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  console.log(JSON.stringify(await finish((await lines.next()).value)));
  process.exit(0);
}

/** Cookies of one site, as a browser keeps them. */
export class Cookies {
  #kept = new Map();

  take(response) {
    for (const line of response.headers.getSetCookie()) {
      const [pair, ...attributes] = line.split(";");
      const [name, value] = [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)];
      const gone = attributes.some((each) => /^\s*(max-age=0|expires=thu, 01 jan 1970)/i.test(each));
      gone ? this.#kept.delete(name) : this.#kept.set(name, value);
    }
    return response;
  }

  get header() {
    return [...this.#kept].map((pair) => pair.join("=")).join("; ");
  }
}
