// How costs are told. A local cloud costs nothing: its page tells what AWS would charge.

import { createContext, useContext } from "react";
import { dollars } from "./format";

// Whether the page shows runs of a local cloud.
export const IsLocal = createContext(false);

// A function that says what has been spent, such as `$3.00 of a budget of $50.00`, as the commands on runs do.
export function useCost(): (spent: string) => string {
  const isLocal = useContext(IsLocal);
  return (spent) => (isLocal ? `no cost on a local cloud (AWS would have charged ${spent})` : spent);
}

// A function that says the same of a row in few words.
export function useShortCost(): (amount: number) => string {
  const isLocal = useContext(IsLocal);
  return (amount) => (isLocal ? `${dollars(amount)} on AWS` : dollars(amount));
}
