"""What jobs cost: interference-discounted prices, and the accounts that they are charged to."""
